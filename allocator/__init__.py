"""Policy of giving out nodes."""

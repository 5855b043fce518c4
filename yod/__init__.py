"""Policy of one launch, and the face of the running application."""

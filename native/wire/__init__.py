"""The messages that the programs exchange. PROTOCOL.md is the specification."""

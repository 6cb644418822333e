"""Training that several stages share."""

"""Speed and memory of training steps by precision and method."""

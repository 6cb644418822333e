"""Train a converted model on a task: labelled texts or dialogue, all weights or adapters."""

"""Training: engine, loop, checkpoints, schedule, metrics. Shared by the stages that train networks by our own loop."""

"""Archive: one deterministic, verifiable file of an experiment."""

"""Networks: built from settings, and their weights on disk. Shared by the stages that train, convert and measure."""

"""smelt: raw text to evaluated language models, as a pipeline of reproducible stages."""

__version__ = "0.1.0"

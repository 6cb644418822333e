"""Stage convert: from training weights to a Hugging Face directory that computes the same."""

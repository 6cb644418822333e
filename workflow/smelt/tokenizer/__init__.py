"""Stage tokenizer: train a tokenizer on a corpus and export it for transformers with the same ids."""

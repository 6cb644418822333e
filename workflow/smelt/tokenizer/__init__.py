"""Stage tokenizer: train a SentencePiece model on a corpus and export it for transformers with the same ids."""

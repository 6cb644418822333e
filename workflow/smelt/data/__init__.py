"""Data planes that several stages share: sources, documents, cleaning, duplicates, splits, tokens, order."""

"""Stage corpus: text, downloaded, cleaned, deduplicated and split."""

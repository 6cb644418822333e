"""Stage task: labelled texts or dialogue, downloaded, deduplicated and split."""

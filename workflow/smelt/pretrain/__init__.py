"""Stage pretrain: a language model from random weights and shards of tokens."""

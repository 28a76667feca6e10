"""Requests that come over time and share one engine: traces, pages of the KV cache, schedulers, and what they cost."""

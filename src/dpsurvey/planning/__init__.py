"""Planning: sampling rates and what they do to errors, before anything is drawn."""

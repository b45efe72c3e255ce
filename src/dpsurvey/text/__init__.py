"""Plain text and files: numbers and tables as text; what others wrote, read whole; what we write, whole or not at all."""

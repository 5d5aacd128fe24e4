"""What belongs to one chapter and to nobody else: a folder of its name, with its figures."""

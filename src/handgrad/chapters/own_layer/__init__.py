"""Three layers that the book does not have, proved as its own are: see book/own_layer.md."""

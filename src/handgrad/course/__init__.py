"""What makes the package a book: figures, evidence, the ledger, the rules of a notebook, the judge."""

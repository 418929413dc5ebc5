"""Backend that distributes the rows of one run over Ray workers."""

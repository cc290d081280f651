"""The words: frozen models of every contract, shared by conductor and workers. No I/O."""

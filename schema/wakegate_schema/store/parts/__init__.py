"""The store's verbs, a class for each noun; `Store` is all of them."""

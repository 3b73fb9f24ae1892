"""The store's verbs, by the record they concern. Each takes a transaction and runs named queries."""

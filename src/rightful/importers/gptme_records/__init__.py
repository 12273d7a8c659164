"""gptme's records of single tool calls: manifests and receipts."""

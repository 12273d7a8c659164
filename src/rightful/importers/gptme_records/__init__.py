"""What gptme records of single tool calls: manifests and receipts."""

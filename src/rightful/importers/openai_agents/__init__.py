"""The session databases of the OpenAI Agents SDK, read without the SDK."""

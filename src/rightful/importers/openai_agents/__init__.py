"""The databases in which the OpenAI Agents SDK keeps its sessions; read without the SDK."""

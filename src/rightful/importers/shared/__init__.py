"""What the readers of several tools' transcripts share."""

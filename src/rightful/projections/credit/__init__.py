"""Credit: from facts and a policy to bins, credits and posteriors."""

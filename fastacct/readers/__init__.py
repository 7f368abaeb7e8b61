"""Ways of reading a job: from losses and counts to certified bounds."""

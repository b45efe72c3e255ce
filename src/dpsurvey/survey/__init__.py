"""What a user holds: a survey, its plan, its release, its file and its sealed sample."""

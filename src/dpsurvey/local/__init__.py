"""Answers randomised before they leave the respondent."""

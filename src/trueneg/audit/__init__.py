"""False negatives in the user's own files, before anything is trained."""

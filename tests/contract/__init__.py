"""What every engine answers, whichever it is: one suite for all of them."""

"""What ``make bench-*`` runs, each a program, and the simulations and known answers that tests share with them."""

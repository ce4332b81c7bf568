module gallery/transactions

go 1.25.0

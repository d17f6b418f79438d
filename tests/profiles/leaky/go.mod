module leaky

go 1.24

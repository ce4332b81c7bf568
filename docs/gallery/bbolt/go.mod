module gallery/bbolt

go 1.25.0

require (
	gallery/transactions v0.0.0
	go.etcd.io/bbolt v1.5.0
)

require golang.org/x/sys v0.45.0 // indirect

replace gallery/transactions => ../common/go

package lock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"

	"tgbridge/lock"
)

// Of all processes that run this against one directory, one at a time leads. The
// others get to know who does, and may try again once that one is dead, hung, or
// has released.
func Example() {
	parent, err := os.MkdirTemp("", "lock-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "state") // made by the first member

	// A member is this process's presence; its beat says that it gets on.
	member, err := lock.OpenMember(lock.MemberOptions{Dir: dir, Name: "worker"})
	if err != nil {
		log.Fatal(err)
	}
	defer member.Close()
	ctx, stop := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() { _ = member.Run(ctx, func() bool { return true }) })
	defer beating.Wait()
	defer stop()

	lease, err := lock.New(lock.Options{Dir: dir, Key: "example", Member: member})
	if err != nil {
		log.Fatal(err)
	}
	res, err := lease.Acquire(ctx, lock.Plain, nil)
	if err != nil {
		log.Fatal(err)
	}
	if !res.Acquired {
		fmt.Println("follows", res.Owner.Name)
		return
	}
	fmt.Println("leads, term", res.Term)

	// Before each step of the work, and once a second: still the owner?
	if owns, err := lease.Owns(); err == nil && owns {
		fmt.Println("works")
	}

	// What is published by Commit cannot overwrite a later leader's.
	_, err = lease.Commit(ctx, "progress.json", func(current []byte) ([]byte, error) {
		return []byte(`{"done":1}`), nil
	})
	if err != nil {
		log.Fatal(err)
	}

	state, released, err := lease.Release(ctx)
	fmt.Println(state, released, err)
	// Output:
	// leads, term 1
	// works
	// active here true <nil>
}

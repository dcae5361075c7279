package rpc

import (
	"errors"
	"sync"
)

// A Reader takes the items of a stream, over a wire that carries nothing else. Its methods are
// never called at the same time.
type Reader interface {
	// Item takes an item, which is valid until it returns. It may wait, and the call
	// waits with it.
	Item(Item)

	// Flush notes that for the moment no more items follow.
	Flush()
}

// feed is the wire of a connection that carries one stream to a reader. It begins without
// one, and drops what comes after the reader has left.
type feed struct {
	over chan struct{} // closed when nothing more comes: the stream is done, or went elsewhere
	left chan struct{} // closed when the reader has left

	end, leave func() // close those

	mu     sync.Mutex
	reader Reader // nil before it comes, and when it has left
}

func newFeed() *feed {
	f := &feed{over: make(chan struct{}), left: make(chan struct{})}
	f.end = sync.OnceFunc(func() { close(f.over) })
	f.leave = sync.OnceFunc(func() { close(f.left) })
	return f
}

// read lets a reader come, or leave if it is nil: nothing is given to the one before when it
// returns.
func (f *feed) read(r Reader) {
	f.mu.Lock()
	f.reader = r
	f.mu.Unlock()
	if r == nil {
		f.leave()
	}
}

// errReaderLeft is the end of a feed: the reader may come back for items that it did not get, even
// if all of them were sent.
var errReaderLeft = errors.New("the reader has left")

// Read implements [Conn]: there is nothing to read.
func (f *feed) Read() ([]byte, error) {
	f.Flush()
	<-f.left
	return nil, errReaderLeft
}

// Write implements [Conn].
func (f *feed) Write(frame []byte, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := itemOf(frame)
	if f.reader != nil {
		f.reader.Item(i)
		if !more || i.Type == typeDone {
			f.reader.Flush()
		}
	}
	if i.Type == typeDone {
		f.end()
	}
}

// Flush implements [Conn].
func (f *feed) Flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reader != nil {
		f.reader.Flush()
	}
}

// Left implements [Conn]: a feed is not stopped.
func (f *feed) Left(<-chan struct{}) bool { return false }

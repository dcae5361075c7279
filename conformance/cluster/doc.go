// Package cluster runs three nodes of a cluster as processes on this machine, lets clients of all kinds call all of them while
// nodes are killed, paused, stopped and cut off from each other, and checks that what the clients have seen could have
// happened on one machine: a history of each key that is linearizable, nothing acknowledged that is lost, no key and no
// job that ran twice, no schedule that fired twice or never, and copies that are equal at the end. Everything is in its tests.
//
// # Goroutines of the tests
//
// One for each process waits for its end; one for each proxy takes connections, and two for each connection copy
// it, until the network is closed; one for each client of a round calls until the round ends.
package cluster

package main

func Example() {
	main()
	// Output: reply {"text":"HELLO!"}
}

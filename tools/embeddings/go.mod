module kernos/tools/embeddings

go 1.26.0

require kernos v0.0.0

require golang.org/x/text v0.43.0 // indirect

replace kernos => ../..

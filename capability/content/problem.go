package content

// A problem is what stands in a field of the output whose value could not be had. Those of
// the specification are spelled as it spells them.
type problem string

const (
	fetchFailed        problem = "ERROR: FETCH_FAILED"
	parseError         problem = "ERROR: PARSE_ERROR"
	missingName        problem = "ERROR: MISSING_NAME"
	missingDescription problem = "ERROR: MISSING_DESCRIPTION"
	unsupportedScheme  problem = "ERROR: UNSUPPORTED_SCHEME"

	timedOut         problem = "ERROR: TIMEOUT"
	permissionDenied problem = "ERROR: PERMISSION_DENIED"
	notFound         problem = "ERROR: NOT_FOUND"
	executionFailed  problem = "ERROR: EXECUTION_FAILED"
	noOutput         problem = "ERROR: NO_OUTPUT"
	executionSkipped problem = "ERROR: EXECUTION_SKIPPED"

	// The specification has no code for these two: a script whose runtime is not
	// installed, and a list that was cut.
	noRuntime           problem = "ERROR: NO_RUNTIME"
	tooManyDependencies problem = "ERROR: TOO_MANY_DEPENDENCIES"
)

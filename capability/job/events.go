package job

import (
	"kernos/kernel"
	"kernos/message"
)

// The events of jobs. They carry the correlation of the request that has started the job, and
// name it as their cause.
const (
	startedEvent    message.Type = "Job.Started"
	progressedEvent message.Type = "Job.Progressed"
	completedEvent  message.Type = "Job.Completed"
	failedEvent     message.Type = "Job.Failed"
	canceledEvent   message.Type = "Job.Canceled"
)

var events = []kernel.EventDefinition{
	{Type: startedEvent, Summary: "The job has begun: {jobId, name, attempt}."},
	{Type: progressedEvent, Summary: "The job got further: {jobId, note, percentage}."},
	{Type: completedEvent, Summary: "The job has succeeded: {jobId, name}."},
	{Type: failedEvent, Summary: "The job has failed: {jobId, name, step?, error}, with the step that has failed."},
	{Type: canceledEvent, Summary: "The job was canceled: {jobId, name}."},
}

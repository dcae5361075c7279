package console_test

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestTheConsoleOpens(t *testing.T) {
	w := open(t)
	w.wait(`document.querySelector('[data-view=call]')`)
	if png, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot()); err == nil {
		_ = os.WriteFile("/tmp/w5/shot.png", png, 0o600)
	}
}

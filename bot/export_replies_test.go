package bot

import (
	"time"

	"tgbridge/internal/telegram"
)

// GiveUpAfter makes a member that does not run yet give calls up when Telegram
// cannot be reached for so long, instead of after minutes.
func GiveUpAfter(b *Bridge, d time.Duration) {
	api, err := telegram.NewAPI(b.client, telegram.APIOptions{Unpaced: b.o.Unpaced, MaxWait: d, Check: b.checkLeads, Logger: b.log})
	if err != nil {
		panic(err)
	}
	b.api = api
}

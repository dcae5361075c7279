// What stands in an empty place while there is no connection to fill it.
import { status } from "../core/rpc";

export const Waiting = () => (status.value === "lost" ? <div class="empty spread" data-testid="waiting"><p>There is no connection to the kernel. This is shown when it is back.</p></div> : null);

export default function Call() { return <div class="body" data-testid="call">Call</div>; }

"""From the samples of hosts to one measurement. Pure.

A *curve* is the total payload of a flow over time, linear between samples. The *window* is the part of a run over which
rates are taken. It is *stable* when the rate of each sink varies by at most 15 %.

Example: period 0.25 s, warm-up 0.4 s, window 1.5 s. The run needs samples up to 1.9 s, so it ends with the one at
2.0 s. The window begins at max(0.4, 2.0 - 1.5 - 0.125) = 0.4 s and holds the 7 samples from 0.5 s to 2.0 s. The sink's
curve grows from 600 MB to 2,400 MB: 8 x 1,800 MB / 1.5 s = 9.6 Gbit/s. The pause counter grows by 3 ms: a pause ratio
of 0.002. Where the 6 rates vary too much, the run goes on and the window moves.
"""
